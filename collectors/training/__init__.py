"""`--stage pretrain` and `--stage finetune`: training runs of our own."""
