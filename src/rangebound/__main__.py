"""`python -m rangebound`: the command, where its folder is not on the path."""

from rangebound.cli.app import main

if __name__ == "__main__":
    main()
