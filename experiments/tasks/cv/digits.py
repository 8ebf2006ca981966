"""Digits: 8x8 images of handwritten digits, ten classes. Nothing to download.

1,797 images that scikit-learn carries, from the test half of UCI's Optical Recognition of Handwritten Digits: 1,200 for
training, 297 for validation, 300 for test, each class in its share, the same for every seed. Pixels are in [0, 1].
"""

from __future__ import annotations

from pathlib import Path

from experiments.data import stratified
from experiments.data.images import Images
from experiments.task import TaskData, TaskSpec


def load(root: Path | None) -> TaskData:
    import torch
    from sklearn.datasets import load_digits

    found = load_digits()
    images = torch.from_numpy(found.images).float().unsqueeze(1) / 16
    labels = torch.from_numpy(found.target).long()
    train, validation, test = stratified.order(labels, seed=0).split([1200, 297, 300])
    rows = {"train": train, "validation": validation, "test": test}
    return Images({split: (images[part], labels[part]) for split, part in rows.items()}, classes=10)


TASK = TaskSpec(
    load=load,
    model={"name": "mlp", "width": 128, "depth": 2},
    optimizer={"name": "adamw", "lr": 5e-3, "weight_decay": 0.05},
    schedule={"name": "warmup_cosine"},
    metric="accuracy",
    mode="max",
    metrics=("accuracy", "loss"),
    worst=0.0,
    target=0.96,
    target_source="what the default AdamW run reaches in about a third of its budget (10 seeds)",
    unit="images",
    budget={"updates": 300},
    batch_size=64,
    evaluate_every=25,
    cite="""@misc{alpaydin1998optical,
  title={Optical Recognition of Handwritten Digits},
  author={Alpaydin, Ethem and Kaynak, Cenk},
  howpublished={UCI Machine Learning Repository}, year={1998}, doi={10.24432/C50P49}
}""",
    home="scikit-learn (sklearn.datasets.load_digits)",
)
