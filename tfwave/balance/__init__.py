"""Placing variables on parameter servers so that none has more to do than the others."""

from tfwave.balance.chooser import ServerChooser as ServerChooser
from tfwave.balance.load import ServerLoad as ServerLoad
from tfwave.balance.load import server_load as server_load
from tfwave.balance.result import Balance as Balance
from tfwave.balance.solve import balance as balance
from tfwave.balance.variable import Variable as Variable
from tfwave.balance.variables import variables_of as variables_of
from tfwave.plan.placement import Placement as Placement
