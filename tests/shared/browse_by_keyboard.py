"""Drives `tracekit browse` by keyboard, on a screen of 80 columns and 24 rows."""

import asyncio


class Screen:
    def __init__(self, pilot):
        self.pilot = pilot
        self.app = pilot.app

    async def press(self, *keys):
        """Press keys sequentially, waiting for the screen to update after each."""
        for key in keys or ((),):
            await self.pilot.press(*([key] if key else []))
            await self.pilot.pause()
            while not self.text.strip() or "running query …" in self.text or self.app.workers:
                await self.pilot.pause(0.01)
            await self.pilot.pause()
        return self.text

    @property
    def text(self):
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


def walk(trace, steps, width=80):
    from tracekit.browse.app import Browser

    async def run():
        async with Browser(trace, ["run's.json"]).run_test(size=(width, 24)) as pilot:
            screen = Screen(pilot)
            await screen.press()
            await steps(screen)

    asyncio.run(run())


def lines(text):
    return [" ".join(line.split()) for line in text.split("\n")]
