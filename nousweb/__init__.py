"""Nous Web: the control room for what agents remember, believe and are told."""

import os

__version__ = "0.1.0"

# Before numpy is imported anywhere: on busy cores its threads wait for each other longer than a product of matrices
# as small as ours takes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Before onnxruntime is imported anywhere: it would tell its maker of its use, and leave an identifier of the machine
# in the user's folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
