"""Administration of a cluster: `Admin` for blocking code, `AsyncAdmin` for trio and asyncio."""
