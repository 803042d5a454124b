"""How lucyd.toml, providers.d, .env and the environment become one value; the door is ``shared.runtime.settings``."""
