"""Named configurations, one module a recipe or paper table; here, which recipe takes which."""

from . import (
    appendix_d1,
    augreg,
    evaluate,
    fewshot,
    finetune,
    masked_patch,
    near_duplicates,
    qat,
    table2,
    table3,
    table4,
    vtab,
)

FINETUNE = finetune.CONFIGS | table4.CONFIGS | table2.CONFIGS | masked_patch.FINETUNE
PRETRAIN = table3.CONFIGS | augreg.CONFIGS | appendix_d1.CONFIGS
VTAB = vtab.CONFIGS
EVALUATE = evaluate.CONFIGS
MASKED_PATCH = masked_patch.CONFIGS
FEWSHOT = fewshot.CONFIGS
NEAR_DUPLICATES = near_duplicates.CONFIGS
QAT = qat.CONFIGS
