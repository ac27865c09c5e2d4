"""Where an image stands in a segment."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Where the tokens of one image stand.

    Attributes:
        start: Its first token, counted from the start of the segment.
        stop: One behind its last token.
        across: How many of its tokens stand beside each other; so many rows follow one another downwards.
        digest: Of what it shows: the token ids of all images are the same.
    """

    start: int
    stop: int
    across: int
    digest: str

    @property
    def extent(self) -> int:
        """How many positions it takes: the longer side of its grid, not its tokens."""
        return max(self.across, (self.stop - self.start) // self.across)

    def moved(self, by: int) -> ImageSpan:
        """The same span `by` tokens further on."""
        return replace(self, start=self.start + by, stop=self.stop + by)
