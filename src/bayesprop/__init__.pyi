"""The public names, and where they live."""

from .active_learning.learner import ActiveLearner as ActiveLearner
from .bandits.durable import DurableBandit as DurableBandit
from .bandits.policies import EpsilonGreedy as EpsilonGreedy
from .bandits.policies import Greedy as Greedy
from .bandits.policies import ThompsonSampler as ThompsonSampler
from .bandits.policies import UpperConfidence as UpperConfidence
from .conformal import ConformalClassifier as ConformalClassifier
from .conformal import ConformalRegressor as ConformalRegressor
from .distributions.categorical import ClassPredictive as ClassPredictive
from .distributions.mixture import MixturePredictive as MixturePredictive
from .distributions.predictive import GaussianPredictive as GaussianPredictive
from .distributions.predictive import Predictive as Predictive
from .estimators.batch_ep import BatchEPRegressor as BatchEPRegressor
from .estimators.bayes_by_backprop import BayesByBackpropClassifier as BayesByBackpropClassifier
from .estimators.bayes_by_backprop import BayesByBackpropRegressor as BayesByBackpropRegressor
from .estimators.closed_form_vi import ClosedFormVIClassifier as ClosedFormVIClassifier
from .estimators.closed_form_vi import ClosedFormVIRegressor as ClosedFormVIRegressor
from .estimators.default import BayesianClassifier as BayesianClassifier
from .estimators.default import BayesianRegressor as BayesianRegressor
from .estimators.ebp import EBPClassifier as EBPClassifier
from .estimators.graves_vi import GravesVIClassifier as GravesVIClassifier
from .estimators.graves_vi import GravesVIRegressor as GravesVIRegressor
from .estimators.laplace import LaplaceClassifier as LaplaceClassifier
from .estimators.laplace import LaplaceRegressor as LaplaceRegressor
from .estimators.linear_regression import BayesianLinearRegressor as BayesianLinearRegressor
from .estimators.logistic_regression import BayesianLogisticClassifier as BayesianLogisticClassifier
from .estimators.mc_dropout import MCDropoutClassifier as MCDropoutClassifier
from .estimators.mc_dropout import MCDropoutRegressor as MCDropoutRegressor
from .estimators.mcmc import MCMCClassifier as MCMCClassifier
from .estimators.mcmc import MCMCRegressor as MCMCRegressor
from .estimators.pbp import PBPClassifier as PBPClassifier
from .estimators.pbp import PBPRegressor as PBPRegressor
from .estimators.point_network import DeepEnsembleClassifier as DeepEnsembleClassifier
from .estimators.point_network import DeepEnsembleRegressor as DeepEnsembleRegressor
from .estimators.point_network import PointNetworkClassifier as PointNetworkClassifier
from .estimators.point_network import PointNetworkRegressor as PointNetworkRegressor
from .estimators.pruning import prune as prune
from .model.progress import time_limit as time_limit
from .scale.merging import merge as merge
from .scale.shards import fit_shards as fit_shards
from .table_model.compare import compare as compare
from .table_model.from_python import fit as fit
from .table_model.from_python import load as load
from .table_model.model import TableModel as TableModel
from .table_model.optimise import Optimiser as Optimiser
from .table_model.scikit_learn import TableClassifier as TableClassifier
from .table_model.scikit_learn import TableRegressor as TableRegressor

__version__: str
__all__: list[str]
