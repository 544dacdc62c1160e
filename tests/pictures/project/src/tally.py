"""Counts lines, words and characters of text files."""

import sys

USAGE = "usage: tally.py FILE..."


def count(text):
    """Returns the numbers of lines, words and characters."""
    lines = text.count("\n")
    words = len(text.split(" "))
    return lines, words, len(text)


def is_option(word):
    """Tells whether a word of the command line is an option."""
    return word.startswith("--")


def read(path):
    """Returns the text of a file."""
    with open(path) as file:
        return file.read()


def fail(message):
    """Ends the program with an error."""
    print(f"tally.py: {message}", file=sys.stderr)
    print(USAGE, file=sys.stderr)
    sys.exit(2)


def row(counts, name):
    """Returns the line that is printed for a file."""
    lines, words, characters = counts
    return f"{lines} {words} {characters} {name}"


def check(words):
    """Refuses options, which this program does not have."""
    for word in words:
        if is_option(word):
            fail(f"unknown option {word}")


def main(paths):
    """Prints a line for each file."""
    check(paths)
    for path in paths:
        print(row(count(read(path)), path))


if __name__ == "__main__":
    main(sys.argv[1:])
