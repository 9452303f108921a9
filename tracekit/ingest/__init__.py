"""Chrome traces into the tables of a store: bytes, blocks of events, typed rows."""
