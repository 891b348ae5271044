"""Private fine-tuning with the Trainer of Hugging Face: low-rank adapters (LoRA) on a frozen, tiny transformer.

python examples/train_with_trainer.py

Network and sentences are made up here; nothing is downloaded. What differs from a plain Trainer is marked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertModel, Trainer, TrainingArguments

from rangebound.learn.torch import Euclidean, PrivacyEngine

EPOCHS = 4


class Adapter(torch.nn.Module):
    """A frozen linear layer, and beside it a trainable one of low rank that starts at zero."""

    def __init__(self, frozen: torch.nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = torch.nn.Linear(frozen.in_features, rank, bias=False)
        self.up = torch.nn.Linear(rank, frozen.out_features, bias=False)
        torch.nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.up(self.down(x))


class Classifier(torch.nn.Module):
    """A tiny BERT, frozen but for adapters on its queries and values, and a linear layer on the first token."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=16, attn_implementation="eager",
        )  # fmt: skip
        self.bert = BertModel(config, add_pooling_layer=False).requires_grad_(False)
        for layer in self.bert.encoder.layer:
            attention = layer.attention.self
            attention.query, attention.value = Adapter(attention.query), Adapter(attention.value)
        self.head = torch.nn.Linear(32, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        # the mask is given, because one that is made inside looks at the values of the batch
        mask = torch.zeros(tokens.shape[0], 1, tokens.shape[1], tokens.shape[1])
        return self.head(self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state[:, 0])


class Batches:
    """The private loader's batches, by name, as the Trainer wants them."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for tokens, labels in self.loader:
            yield {"tokens": tokens, "labels": labels}


class PrivateTrainer(Trainer):
    """A Trainer that takes batches as they were sampled, and the loss of the attached network."""

    def __init__(self, *, loader: Any, **options: Any) -> None:
        super().__init__(**options)
        self.loader = loader

    def get_train_dataloader(self) -> Any:
        return Batches(self.loader)

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], **rest: Any) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(inputs["tokens"]), inputs["labels"])

    def log(self, *logs: Any, **more: Any) -> None:
        """Nothing: the training loss is private, and the Trainer writes its mean at the end."""


def main() -> tuple[float, float]:
    """Train for some epochs; the accuracy and the epsilon."""
    torch.manual_seed(1)
    tokens = torch.randint(0, 50, (1280, 8))
    labels = (tokens[:, 0] < 25).long()
    engine = PrivacyEngine()
    model = Classifier()
    trainable = [each for each in model.parameters() if each.requires_grad]
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(trainable, lr=0.5),
        data_loader=DataLoader(TensorDataset(tokens, labels), batch_size=128),
        criterion=torch.nn.CrossEntropyLoss(),
        clipping=Euclidean(clip=1.0),
        target_epsilon=8,
        target_delta=1e-5,
        epochs=EPOCHS,
    )
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder, num_train_epochs=EPOCHS, report_to="none", save_strategy="no", use_cpu=True,
            max_grad_norm=0.0,  # gradients are clipped one by one already
            logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        )  # fmt: skip
        schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
        PrivateTrainer(
            model=engine.attach(model), args=options, loader=loader, optimizers=(optimizer, schedule)
        ).train()
    model.eval()
    with torch.no_grad():
        accuracy = float((model(tokens).argmax(1) == labels).float().mean())
    print(f"accuracy {accuracy:.3f}; {engine.statement(delta=1e-5)}")
    return accuracy, engine.epsilon(delta=1e-5)


if __name__ == "__main__":
    main()
