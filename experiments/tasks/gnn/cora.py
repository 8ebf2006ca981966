"""Cora: a graph of 2,708 papers joined by citations, to be sorted into seven topics with 20 labels each.

The public split: 140 nodes with labels for training, 500 for validation, 1,000 for test. Features: which of 1,433 words
a paper has, each row divided by its sum. In $TRAINLAB_DATA the eight files are in `planetoid/Cora/raw/`; else they are
downloaded once.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data import planetoid
from experiments.data.fetch import Published, Remote
from experiments.task import TaskData, TaskSpec

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_FILES = {
    "x": ("23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab", 22119),
    "tx": ("b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a", 148025),
    "allx": ("9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543", 257305),
    "y": ("94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1", 4054),
    "ty": ("41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad", 28135),
    "ally": ("2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71", 47959),
    "graph": ("58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d", 59847),
    "test.index": ("297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875", 5000),
}
PUBLISHED = Published(
    name="cora",
    folder="planetoid/Cora/raw",
    files=tuple(
        Remote(f"ind.cora.{part}", f"{_URL}/ind.cora.{part}", sha256, size) for part, (sha256, size) in _FILES.items()
    ),
)


def load(root: Path | None) -> TaskData:
    return planetoid.read(PUBLISHED.fetch(root), "cora")


TASK = TaskSpec(
    load=load,
    model={"name": "gcn", "width": 64, "depth": 2, "dropout": 0.7},
    optimizer={"name": "adamw", "lr": 1e-2, "weight_decay": 2.0},
    schedule={"name": "constant"},
    metric="accuracy",
    mode="max",
    metrics=("accuracy", "loss"),
    worst=0.0,
    target=0.8,
    target_source="about the final validation accuracy of the default AdamW run (0.801, mean of 10 seeds)",
    unit="nodes",
    budget={"updates": 200},
    batch_size=140,
    evaluate_every=5,
    select="best",
    cite="""@inproceedings{yang2016revisiting,
  title={Revisiting Semi-Supervised Learning with Graph Embeddings},
  author={Yang, Zhilin and Cohen, William W. and Salakhutdinov, Ruslan},
  booktitle={International Conference on Machine Learning}, pages={40--48}, year={2016}
}
@article{sen2008collective,
  title={Collective Classification in Network Data},
  author={Sen, Prithviraj and Namata, Galileo and Bilgic, Mustafa and Getoor, Lise and Galligher, Brian and
    Eliassi-Rad, Tina},
  journal={AI Magazine}, volume={29}, number={3}, pages={93--106}, year={2008}
}""",
    home="https://github.com/kimiyoung/planetoid",
)
