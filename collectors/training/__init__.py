"""Built-in training workloads: `--stage pretrain` and `--stage finetune`."""
