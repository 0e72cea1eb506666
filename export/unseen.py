"""What a GELU does not tell apart, and what int8 ranges therefore need not reach.

GELU of anything below -4 is zero within 1.3e-4. A range that reaches further down makes the levels of all other values
coarser for nothing (docs/export.md has the decibels).
"""

import numpy as np

GELU_FLOOR = -4.0


def seen_by_gelu(values):
    """Values as a GELU sees them: what lies below the floor is raised to it."""
    return np.maximum(values, GELU_FLOOR)
