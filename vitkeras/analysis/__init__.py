"""Looking inside a model: attention maps, rollout and distance, first filters, positions, and its cost."""

from vitkeras.analysis.attention import attention_maps
from vitkeras.analysis.cost import Cost, LayerCost, flops
from vitkeras.analysis.distance import attention_distance
from vitkeras.analysis.embeddings import embedding_filters, position_similarity
from vitkeras.analysis.rollout import attention_rollout, roll_out, rollout_heat_map

__all__ = [
    "Cost",
    "LayerCost",
    "attention_distance",
    "attention_maps",
    "attention_rollout",
    "embedding_filters",
    "flops",
    "position_similarity",
    "roll_out",
    "rollout_heat_map",
]
