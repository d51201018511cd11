"""`python -m nousweb COMMAND`: as manage.py, wherever the package is installed."""

from nousweb.runtime.command_line import main

if __name__ == "__main__":
    main()
