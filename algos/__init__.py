"""Training algorithms for torch: optimizers, losses, architectures, precision, compression. Nothing is imported before
use."""
