"""The strategy stage without any server: templates, preview extraction, selection.

Paper, appendix: "Two-stage generation" to "Diversity-based selection".
"""

from subgroup_offset.strategy.preview import extract_preview
from subgroup_offset.strategy.prompts import PromptTemplates, load_templates
from subgroup_offset.strategy.selection import jaccard_distance, select_previews

__all__ = ["PromptTemplates", "extract_preview", "jaccard_distance", "load_templates", "select_previews"]
