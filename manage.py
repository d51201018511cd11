#!/usr/bin/env python
"""Django's command line in a clone; an installed package has the command `nous`."""

from nousweb.runtime.command_line import main

if __name__ == "__main__":
    main()
