"""Looking inside a model: attention, rollout, distance, first filters and positions, with figures; and its cost."""

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
from vitkeras.analysis.figures_distance import distance_figure
from vitkeras.analysis.figures_filters import filters_figure
from vitkeras.analysis.figures_heads import attention_figure
from vitkeras.analysis.figures_paper import figure_7, figure_10
from vitkeras.analysis.figures_positions import position_figure
from vitkeras.analysis.figures_rollout import rollout_figure
from vitkeras.analysis.rollout import attention_rollout, roll_out, rollout_heat_map
from vitkeras.analysis.summary_table import summary
from vitkeras.analysis.variant_cost import variant_cost

__all__ = [
    "Cost",
    "LayerCost",
    "attention_crossing",
    "attention_distance",
    "attention_figure",
    "attention_maps",
    "attention_rollout",
    "distance_figure",
    "embedding_filters",
    "exported_size",
    "figure_7",
    "figure_10",
    "filters_figure",
    "flops",
    "parameter_table",
    "patch_table",
    "position_figure",
    "position_similarity",
    "pretraining_exaflops",
    "pretraining_table",
    "roll_out",
    "rollout_figure",
    "rollout_heat_map",
    "summary",
    "variant_cost",
]
