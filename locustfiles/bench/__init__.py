"""What the load itself costs, beside a plain client that does the same work."""

from mockengine.corpus import BodyProfile

# The work: results of 64 KB, whose content is compared.
PROFILE: BodyProfile = "lean"
MAX_TOKENS = 8192
PROMPT_TOKENS = 128
