"""List the plugins that the workers have loaded."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.plugins_table import plugins_table

NONE = "No plugin: either there is none, or no worker runs. docs/plugins.md says how to write one."


def list_plugins(gateway: Gateway, screen: Screen) -> bool:
    """A table; whether all are well."""
    plugins = gateway.plugins()
    if not plugins:
        screen.say(NONE)
        return True
    screen.table(plugins_table(plugins))
    return all(plugin.get("state") == "loaded" for plugin in plugins)
