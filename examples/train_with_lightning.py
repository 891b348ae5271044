"""Private training with Lightning: the ordinary module, its own loss, and automatic optimization.

python examples/train_with_lightning.py

The data are made up here. What differs from plain Lightning is marked.
"""

from __future__ import annotations

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from rangebound.learn.torch import Euclidean, PrivacyEngine


class Classifier(lightning.LightningModule):
    """Two layers; the outputs for training come from the attached network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
        self.criterion = torch.nn.CrossEntropyLoss()
        self.engine = PrivacyEngine()

    def make_private(self, data: TensorDataset) -> object:
        """Private: the engine keeps the optimizer, and returns the loader that samples as accounted."""
        self.net, self.private, loader = self.engine.make_private(
            module=self.net,
            optimizer=torch.optim.Adam(self.net.parameters(), lr=0.05),
            data_loader=DataLoader(data, batch_size=64),
            criterion=self.criterion,
            clipping=Euclidean(clip=1.0),
            target_epsilon=8,
            target_delta=1e-5,
            epochs=4,
        )
        self.attached = [self.engine.attach(self.net)]  # in a list: it is the same network, not a second part
        return loader

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """As always, but for the attached network; the loss is private, so it is not logged."""
        x, y = batch
        return self.criterion(self.attached[0](x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Private: the optimizer that releases."""
        return self.private


def main() -> tuple[float, float]:
    """Train for four epochs; the accuracy and the epsilon."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(640, 8, generator=draw)
    y = (x[:, 0] + x[:, 1] > 0).long()
    model = Classifier()
    loader = model.make_private(TensorDataset(x, y))
    trainer = lightning.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    with torch.no_grad():
        accuracy = float((model.net(x).argmax(1) == y).float().mean())
    print(f"accuracy {accuracy:.3f}; {model.engine.statement(delta=1e-5)}")
    return accuracy, model.engine.epsilon(delta=1e-5)


if __name__ == "__main__":
    main()
