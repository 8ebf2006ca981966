"""Fashion-MNIST: 28x28 images of clothing, ten classes.

60,000 images for training, of which 5,000 are kept for validation (each class in its share, the same for every seed),
and the official 10,000 for test. Pixels are scaled to [0, 1], then shifted and divided by the mean and deviation of the
training pixels. In $TRAINLAB_DATA the four files are in `fashion-mnist/`; else they are taken from Debian's package, or
downloaded once.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data import idx, stratified
from experiments.data.fetch import Published, Remote
from experiments.data.images import Images
from experiments.task import TaskData, TaskSpec

_URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
PUBLISHED = Published(
    name="fashion_mnist",
    folder="fashion-mnist",
    files=(
        Remote(
            name="train-images-idx3-ubyte.gz",
            url=f"{_URL}/train-images-idx3-ubyte.gz",
            sha256="b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
            size_bytes=26421856,
        ),
        Remote(
            name="train-labels-idx1-ubyte.gz",
            url=f"{_URL}/train-labels-idx1-ubyte.gz",
            sha256="0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
            size_bytes=29491,
        ),
        Remote(
            name="t10k-images-idx3-ubyte.gz",
            url=f"{_URL}/t10k-images-idx3-ubyte.gz",
            sha256="cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
            size_bytes=4422079,
        ),
        Remote(
            name="t10k-labels-idx1-ubyte.gz",
            url=f"{_URL}/t10k-labels-idx1-ubyte.gz",
            sha256="8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
            size_bytes=5125,
        ),
    ),
    elsewhere=("/usr/share/datasets/fashion-mnist",),
    package="on Debian `apt install dataset-fashion-mnist`",
)
MEAN, DEVIATION = 0.2860, 0.3530


def load(root: Path | None) -> TaskData:
    folder = PUBLISHED.fetch(root)

    def read(part: str):  # type: ignore[no-untyped-def]
        images = idx.read(folder / f"{part}-images-idx3-ubyte.gz", dimensions=3)
        labels = idx.read(folder / f"{part}-labels-idx1-ubyte.gz", dimensions=1)
        return (images.unsqueeze(1).float() / 255 - MEAN) / DEVIATION, labels.long()

    images, labels = read("train")
    validation, train = stratified.order(labels, seed=0).split([5_000, 55_000])
    splits = {"train": (images[train], labels[train]), "validation": (images[validation], labels[validation])}
    return Images({**splits, "test": read("t10k")}, classes=10)


TASK = TaskSpec(
    load=load,
    model={"name": "resnet", "width": 16, "blocks": 1, "stages": 3, "stride": 2},
    optimizer={"name": "adamw", "lr": 1e-2, "weight_decay": 0.1},
    schedule={"name": "warmup_cosine"},
    metric="accuracy",
    mode="max",
    metrics=("accuracy", "loss"),
    worst=0.0,
    target=0.9,
    target_source="the accuracy that trainlab asks of a small ResNet within three epochs",
    unit="images",
    budget={"epochs": 3},
    batch_size=64,
    evaluate_every=430,
    cite="""@article{xiao2017fashion,
  title={{Fashion-MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  author={Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  journal={arXiv preprint arXiv:1708.07747}, year={2017}
}""",
    home="https://github.com/zalandoresearch/fashion-mnist",
)
