"""Private training with PyTorch: elementwise clipping, one bounded release for each coordinate, accounts.

engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=..., optimizer=..., data_loader=..., criterion=..., ...)
for x, y in loader:
    optimizer.backward(x, y)
    optimizer.step()
engine.epsilon(delta=1e-6)
"""

from __future__ import annotations

import os

from rangebound.values.extras import need

need("torch")
os.environ["MKL_CBWR"] = os.environ.get("MKL_CBWR") or "AUTO,STRICT"  # or MKL rounds a row by where it lies in memory

from rangebound.learn.torch.accounts.fisher_loss import FisherWatcher
from rangebound.learn.torch.accounts.renyi_watcher import RenyiWatcher
from rangebound.learn.torch.attached_module import AttachedModule
from rangebound.learn.torch.clipping_norm import Adaptive, Elementwise, Euclidean
from rangebound.learn.torch.loader import BatchSampling, Relation, Sampling
from rangebound.learn.torch.noise_source import InsecureTorchNoise, Noise, SecureNoise
from rangebound.learn.torch.optimizer import PrivateOptimizer
from rangebound.learn.torch.privacy_engine import PrivacyEngine
from rangebound.learn.torch.training_plan import Charge, PlannedRun, TrainingPlan, TrainingProgress

__all__ = [
    "Adaptive",
    "AttachedModule",
    "BatchSampling",
    "Charge",
    "Elementwise",
    "Euclidean",
    "FisherWatcher",
    "InsecureTorchNoise",
    "Noise",
    "PlannedRun",
    "PrivacyEngine",
    "PrivateOptimizer",
    "Relation",
    "RenyiWatcher",
    "Sampling",
    "SecureNoise",
    "TrainingPlan",
    "TrainingProgress",
]
