from algos.catalogue import lazy

__getattr__, __dir__ = lazy("wrappers")
