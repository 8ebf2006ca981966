# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart
#
# Train something, look at it, compare it fairly. Every run is stored in `.trainlab` beside this
# notebook and mirrored to MLflow; `trainlab ui` shows it there. The command line has the same
# verbs.

# %%
import trainlab as tl

# %% [markdown]
# ## What there is

# %%
tl.list("tasks")

# %%
tl.list("optimizers")

# %% [markdown]
# An optimizer says what it will do to each parameter before it does it. Muon takes the hidden
# matrices; the rest goes to its fallback.

# %%
tl.show("muon", task="digits")

# %% [markdown]
# ## One run

# %%
run = tl.run("task=digits", "optimizer=muon", "budget.updates=200", seed=1)
run

# %%
_ = run.history[["val/accuracy"]].dropna().plot(ylabel="validation accuracy")

# %% [markdown]
# The model is an ordinary torch module, at the weights that were tested.

# %%
run.model

# %% [markdown]
# ## Several runs
#
# Values joined with commas give a run each. This is a look, not a comparison: nothing was tuned,
# and one seed is one seed.

# %%
runs = tl.run("task=digits", "optimizer=adamw,muon,lion", "budget.updates=200")
{each.config.optimizer.name: each.metrics["test/accuracy"] for each in runs}

# %% [markdown]
# ## A comparison
#
# A study tunes every arm with the same number of runs and compares the winners on seeds that no
# tuning has seen. Studies are YAML files; `experiments/studies/demo.yaml` is one to copy. `tl.tune`
# makes one for a single arm.

# %%
study = tl.tune(
    "task=digits", "optimizer=muon", "optimizer.lr=1e-3:1e-1:log", "budget.updates=100", seed=[1, 2, 3], trials=4
)
study.table()

# %% [markdown]
# Its report is a page with the answer, its uncertainty, and the runs behind every number.

# %%
study.report()

# %% [markdown]
# Whom to cite for a run:

# %%
tl.cite(run)
