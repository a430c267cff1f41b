"""The strategy stage without any server: templates, preview extraction, selection.

Paper, appendix: "Two-stage generation" to "Diversity-based selection".
"""

from subgroup_offset.strategy.instructions import split_instructions
from subgroup_offset.strategy.preview import PAIR_MARKER, extract_pair, extract_preview
from subgroup_offset.strategy.prompts import PromptTemplates, load_templates
from subgroup_offset.strategy.selection import jaccard_distance, select_pairs, select_previews

__all__ = [
    "PAIR_MARKER",
    "PromptTemplates",
    "extract_pair",
    "extract_preview",
    "jaccard_distance",
    "load_templates",
    "select_pairs",
    "select_previews",
    "split_instructions",
]
