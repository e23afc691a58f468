"""``geobias-train fit|validate|predict --config configs/x.yaml``: Lightning's command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import NoReturn

import lightning.pytorch as pl
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI, SaveConfigCallback

__all__ = ["build"]

# What jsonargparse says about the option that is wrong; it nests that in the complaints of every type it tried.
_COMPLAINT = re.compile(
    r"Option '[^']*' is not accepted|does not accept option '[^']*'|[Uu]nrecognized arguments: [^\n]*"
    r"|No module named '[^']*'|module '[^']*' has no attribute '[^']*'|Key \"[^\"]*\" is required"
    r"|Expected an? [^\n]*Got value: [^\n]*|argument subcommand: [^\n]*|the following arguments are required: [^\n]*"
)
_LONGEST = 500  # characters of any other complaint, which may hold a whole file


class _Parser(LightningArgumentParser):
    """Says in one line which option is wrong, instead of every type that was tried and a page of options."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:
            super().error(message, ex)
        complaint = _COMPLAINT.search(message)
        if complaint:
            where = ".".join(re.findall(r'Parser key "([^"]+)"', message[: complaint.start()]))
            message = f"{where}: {complaint[0]}" if where else complaint[0]
        else:
            message = " ".join(message.split())
            message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."
        self.exit(2, f"error: {message}\n")


_DESCRIPTION = (
    "Train a location encoder with a geo-bias loss and log its geo-bias per epoch. Models, data, encoders, losses and "
    "partitions are named in a configuration by class path; configs/airports_geobias.yaml is one to start from."
)


class _CLI(LightningCLI):
    """Refuses, before anything is built, to go on without the checkpoint that is needed."""

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """All of Lightning's but `test`: held-out points are the validation's."""
        return {name: skipped for name, skipped in LightningCLI.subcommands().items() if name != "test"}

    def before_instantiate_classes(self) -> None:
        if self.subcommand is None:
            return
        path = self.config[self.subcommand].get("ckpt_path")
        if path is None and self.subcommand != "fit":
            self.parser.error(
                f"Expected `--ckpt_path`, the checkpoint to {self.subcommand} with, but got none: "
                "the weights would be random."
            )
        # Lightning's own words find a checkpoint of this run, of which only `fit` may have one
        words = ("last", "hpc") if self.subcommand == "fit" else ()
        if path and path not in words and ":" not in str(path) and not Path(path).exists():
            self.parser.error(f"Expected `--ckpt_path` to be a checkpoint, but got no file {path}.")


def build(argv: ArgsType = None, *, run: bool = True) -> LightningCLI:
    """Put together what a configuration names, and run its subcommand unless told not to.

    Models, data, encoders, losses and partitions are named by ``class_path``. The logger is CSV files under ``runs/``
    unless the configuration names another.

    Args:
        argv: arguments instead of those of the process; without a subcommand if ``run`` is false.
        run: whether to run the subcommand.

    Returns:
        the command line with its ``trainer``, ``model`` and ``datamodule``.

    Example:
        >>> from training.cli import build
        >>> cli = build(["--config", "configs/airports.yaml"], run=False)
        >>> type(cli.model).__name__, type(cli.datamodule).__name__
        ('RegressionTask', 'AirportsDataModule')
    """
    return _CLI(
        pl.LightningModule,
        pl.LightningDataModule,
        subclass_mode_model=True,
        subclass_mode_data=True,
        auto_configure_optimizers=False,  # a task brings its own
        # the configuration of a run is kept beside its log; where nothing is run there is no place for it
        save_config_callback=SaveConfigCallback if run else None,
        save_config_kwargs={"overwrite": True},
        trainer_defaults={
            "logger": {"class_path": "lightning.pytorch.loggers.CSVLogger", "init_args": {"save_dir": "runs"}}
        },
        parser_class=_Parser,
        parser_kwargs={"description": _DESCRIPTION},
        args=argv,
        run=run,
    )


def main(argv: ArgsType = None) -> None:
    """Run ``geobias-train``; exits with 2 and one line on a wrong or misspelt option, file or setting.

    Args:
        argv: arguments instead of those of the process.
    """
    try:
        build(argv)
    except Exception as error:
        reason = next(filter(None, map(_reason, _causes(error))), None)
        if reason is None:  # nobody's setting, but a defect: all of it is of use
            raise
        print(f"error: {' '.join(reason.split())}", file=sys.stderr)
        raise SystemExit(2) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it, the first cause first: others wrap what a class says about its arguments."""
    if error is not None:
        yield from _causes(error.__cause__ or error.__context__)
        yield error


def _reason(error: BaseException) -> str | None:
    """What an error says to whoever wrote the configuration; None where it is about the code."""
    text = str(error)
    if isinstance(error, (ValueError, TypeError, ImportError)):
        return text if text.startswith("Expected ") and not text.startswith("Expected a <") else None
    if "checkpoint contains only the model" in text:
        return (
            "Expected `--ckpt_path` to be a checkpoint with the state of the optimizer, but got weights only "
            "(`save_weights_only` of ModelCheckpoint)."
        )
    if isinstance(error, (UnpicklingError, EOFError)) or text.startswith("Error(s) in loading state_dict"):
        return f"Expected `--ckpt_path` to be a checkpoint of the configured model, but got this: {text[:200]}"
    return text if isinstance(error, (OSError, MisconfigurationException)) else None


if __name__ == "__main__":
    main()
