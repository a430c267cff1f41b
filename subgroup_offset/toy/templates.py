"""The Jinja2 templates of the toy world; imports nothing, so that a run's configuration can carry them as text."""

# Variable: problem. The warm start has seen exactly this text, so a run must carry it unchanged.
STRATEGY_TEMPLATE = "{{ problem }}\nPreview only, no answer."

# Variables: problem, marker (the line between the two previews). The warm start has seen this text too.
PAIRED_TEMPLATE = "{{ problem }}\nTwo previews, {{ marker }} between."

# Variables: problem, preview. The preview is appended to the problem, with the narrow escape of the paper.
EXECUTION_TEMPLATE = "{{ problem }}\nFollow this preview unless it is flawed:\n{{ preview }}"
