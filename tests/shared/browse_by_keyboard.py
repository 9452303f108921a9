"""Drives `tracekit browse` by keyboard, on a screen of 80 columns and 24 rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tracekit.trace import Trace


class Screen:
    def __init__(self, pilot: Any) -> None:
        self.pilot = pilot
        self.app = pilot.app

    async def press(self, *keys: str) -> str:
        """Press keys sequentially, waiting for the screen to update after each."""
        for key in keys or ((),):
            await self.pilot.press(*([key] if key else []))
            await self.pilot.pause()
            while not self.text.strip() or "running query …" in self.text or self.app.workers:
                await self.pilot.pause(0.01)
            await self.pilot.pause()
        return self.text

    @property
    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


def walk(trace: Trace, steps: Callable[[Screen], Awaitable[None]], width: int = 80) -> None:
    from tracekit.browse.app import Browser

    async def run() -> None:
        async with Browser(trace, ["run's.json"]).run_test(size=(width, 24)) as pilot:
            screen = Screen(pilot)
            await screen.press()
            await steps(screen)

    asyncio.run(run())


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n")]
