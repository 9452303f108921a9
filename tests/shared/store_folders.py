"""Contents of folders with stores."""


def left_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stores(folder):
    return sorted(folder.glob("*"))
