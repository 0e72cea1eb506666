"""What a GELU does not tell apart, and what int8 ranges therefore need not reach.

GELU of anything below -4 is zero within 1.3e-4. A range that reaches further down, to -24 on a trained ViT-S/14, makes
the levels of all other values coarser for nothing (docs/export.md has the decibels).
"""

import numpy as np

GELU_FLOOR = -4.0


def read_by_gelu(graph):
    """Names of the tensors of a `Graph` that only GELUs read, a set."""
    return {
        graph.name(tensor)
        for operator in graph.operators
        for tensor in operator.outputs
        if tensor not in graph.outputs and {graph.kinds[i] for i in graph.consumers.get(tensor, ())} == {"GELU"}
    }


def seen_by_gelu(values):
    """Values as a GELU sees them: what lies below the floor is raised to it."""
    return np.maximum(values, GELU_FLOOR)
