"""`python -m chunkfold` is the command `chunkfold`."""

from chunkfold.cli import main

if __name__ == "__main__":
    main()
