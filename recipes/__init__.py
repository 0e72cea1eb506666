"""Training recipes: one script a task, named configurations, typed overrides."""

import os

# Read when TensorFlow is loaded, which every recipe does: without it five lines about processor instructions come
# before a recipe's own first line. Warnings and errors stay.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
