import unittest

import tally


class CountTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(tally.count("one two\n")[1], 2)


if __name__ == "__main__":
    unittest.main()
