"""``geobias-train fit|validate|predict --config configs/x.yaml``: Lightning's command line."""

from __future__ import annotations

import re
from typing import NoReturn

import lightning.pytorch as pl
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI

__all__ = ["build"]

# What jsonargparse says about the option that is wrong; it nests that in the complaints of every type it tried.
_COMPLAINT = re.compile(
    r"Option '[^']*' is not accepted|does not accept option '[^']*'|[Uu]nrecognized arguments: [^\n]*"
    r"|No module named '[^']*'|module '[^']*' has no attribute '[^']*'|Key \"[^\"]*\" is required"
    r"|Expected an? [^\n]*Got value: [^\n]*|argument subcommand: [^\n]*"
)


class _Parser(LightningArgumentParser):
    """Says in one line which option is wrong, instead of every type that was tried and a page of options."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:
            super().error(message, ex)
        complaint = _COMPLAINT.search(message)
        if complaint:
            where = ".".join(re.findall(r'Parser key "([^"]+)"', message[: complaint.start()]))
            message = f"{where}: {complaint[0]}" if where else complaint[0]
        self.exit(2, f"error: {message}\n")


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
    return LightningCLI(
        pl.LightningModule,
        pl.LightningDataModule,
        subclass_mode_model=True,
        subclass_mode_data=True,
        auto_configure_optimizers=False,  # a task brings its own
        save_config_kwargs={"overwrite": True},
        trainer_defaults={
            "logger": {"class_path": "lightning.pytorch.loggers.CSVLogger", "init_args": {"save_dir": "runs"}}
        },
        parser_class=_Parser,
        args=argv,
        run=run,
    )


def main(argv: ArgsType = None) -> None:
    """Run ``geobias-train``; exits with 2 on a wrong or misspelt option.

    Args:
        argv: arguments instead of those of the process.
    """
    build(argv)


if __name__ == "__main__":
    main()
