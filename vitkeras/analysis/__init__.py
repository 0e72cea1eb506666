"""Looking inside a model: attention maps, rollout and distance, first filters, positions, and its cost."""

from vitkeras.analysis.attention import attention_maps
from vitkeras.analysis.cost import Cost, LayerCost, flops
from vitkeras.analysis.cost_tables import (
    attention_crossing,
    parameter_table,
    patch_table,
    pretraining_exaflops,
    pretraining_table,
)
from vitkeras.analysis.distance import attention_distance
from vitkeras.analysis.embeddings import embedding_filters, position_similarity
from vitkeras.analysis.exported_size import exported_size
from vitkeras.analysis.rollout import attention_rollout, roll_out, rollout_heat_map
from vitkeras.analysis.summary_table import summary
from vitkeras.analysis.variant_cost import variant_cost

__all__ = [
    "Cost",
    "LayerCost",
    "attention_crossing",
    "attention_distance",
    "attention_maps",
    "attention_rollout",
    "embedding_filters",
    "exported_size",
    "flops",
    "parameter_table",
    "patch_table",
    "position_similarity",
    "pretraining_exaflops",
    "pretraining_table",
    "roll_out",
    "rollout_heat_map",
    "summary",
    "variant_cost",
]
