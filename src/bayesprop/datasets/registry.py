"""The data sets that can be named: where each one is, its checksum, columns, licence, splits.

A new data set is one entry of the table below. Places are tried in this order: the folder that the
environment variable BAYESPROP_DATA names, the sets that come with scikit-learn, openml.org.
"""

from __future__ import annotations

from typing import Any

from bayesprop.datasets.places import FOLDER_VARIABLE, PLACES, DataSet, Loaded
from bayesprop.table.errors import TableError, quoted

_CC_BY = "CC BY 4.0"
_SKLEARN = f"{_CC_BY}, as part of scikit-learn"


def _uci(name: str, *, licence: str = _CC_BY, **about: Any) -> DataSet:
    """Describe a regression table of the papers, from UCI in most cases."""
    return DataSet(name=name, licence=licence, file=f"uci/{name}.npz", **about)


def _bundled_classes(**about: Any) -> DataSet:
    """Describe a classification table that comes with scikit-learn."""
    return DataSet(licence=_SKLEARN, n_splits=0, **about)


def _pictures(name: str, **about: Any) -> DataSet:
    """Describe 28 x 28 pictures of ten classes in the published division of MNIST."""
    return DataSet(
        name=name,
        n=70_000,
        d=784,
        file=f"{name}/{name}.npz",
        n_splits=1,
        n_train=60_000,
        image_shape=(28, 28),
        **about,
    )


_TABLE: dict[str, DataSet] = {
    data.name: data
    for data in (
        DataSet(
            name="diabetes",
            n=442,
            d=10,
            target="progression",
            unit="score one year after baseline",
            y_mean=152.1335,
            y_std=77.0057,
            licence="BSD 3-clause, as part of scikit-learn",
            citation="Efron, Hastie, Johnstone & Tibshirani, Ann. Statist. 32 (2004) 407-499",
            note="age in years, bmi in kg/m2, bp mean arterial pressure in mmHg; tc to glu (s1 to"
            " s6 elsewhere) are blood serum measurements",
            bundled="load_diabetes",
            n_splits=0,
            features=("age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu"),
        ),
        _uci(
            name="boston",
            n=506,
            d=13,
            target="MEDV",
            unit="1000 USD",
            y_mean=22.5328,
            y_std=9.1880,
            licence="no statement known",
            citation="Harrison & Rubinfeld, J. Environ. Econ. Manage. 5 (1978) 81-102",
            note="only to reproduce published tables: its feature B assumes that racial segregation"
            " affects house prices, and the set was withdrawn from common libraries for that"
            " reason; target capped at 50",
            sha256="293705daf97381b5da7b02d99a30f522a97540d51a3ff766b6bfa41a9cb80285",
            openml=531,
        ),
        _uci(
            name="concrete",
            n=1030,
            d=8,
            target="compressive_strength",
            unit="MPa",
            y_mean=35.8180,
            y_std=16.6976,
            citation="I-C. Yeh, UCI 165, doi 10.24432/C5PK67; Cement and Concrete Research 28"
            " (1998) 1797-1808",
            note="25 rows are exact duplicates; age in days, the other features in kg/m3",
            sha256="02178be6de188d5651bfd91b0d76937ac426a901e0d0f1f1824dee3860c6f08d",
            openml=44959,
        ),
        _uci(
            name="energy",
            n=768,
            d=8,
            target="heating_load",
            unit="kWh/m2",
            y_mean=22.3072,
            y_std=10.0836,
            citation="Tsanas & Xifara (2012), UCI 242, doi 10.24432/C51307",
            note="heating load only, as in the papers; the cooling load is left out",
            sha256="34e00c6cee82474f101807c1ac1ae87220d7469f0d3217ca154d52c4636790b9",
            openml=44960,
        ),
        _uci(
            name="kin8nm",
            n=8192,
            d=8,
            target="y",
            unit="distance, as given",
            y_mean=0.7143,
            y_std=0.2636,
            licence="freely distributed for research",
            citation="DELVE, University of Toronto, kin family",
            note="simulated arm of 8 links, nonlinear, medium noise",
            sha256="517de40a6033da8544c87e9d1895d7ad044d9c6354bac4827baf070270832ee2",
            openml=44980,
        ),
        _uci(
            name="naval",
            n=11934,
            d=16,
            target="kMc",
            unit="dimensionless",
            y_mean=0.9750,
            y_std=0.0147,
            licence=f"{_CC_BY} at UCI; the original archive prohibits commercial use",
            citation="Coraddu et al. (2014), UCI 316, doi 10.24432/C5K31K",
            note="compressor decay; the turbine decay is neither target nor feature; T1 and P1 are"
            " constant, Ts and Tp equal",
            sha256="70acf14cf0596f9c98ede206cac98975cc99ee908adcf90f9e85d8f9f58c4121",
            openml=44969,
        ),
        _uci(
            name="power_plant",
            n=9568,
            d=4,
            target="PE",
            unit="MW",
            y_mean=454.3650,
            y_std=17.0661,
            citation="Tufekci & Kaya (2014), UCI 294, doi 10.24432/C5002N",
            note="41 rows are duplicates",
            sha256="839000d3122939a7bdc541cec168e3ee42967ab2c5dfd2039f2388101e0fee33",
        ),
        _uci(
            name="protein",
            n=45730,
            d=9,
            target="RMSD",
            unit="angstrom",
            y_mean=7.7485,
            y_std=6.1182,
            citation="P. S. Rana (2013), UCI 265, doi 10.24432/C5QW3H",
            note="1711 rows are duplicates; the papers use 5 splits and 100 hidden units",
            sha256="985ce2e679bf8d0e81fba2ba95d110b0371d747bd10bd691eb6d085f5844023a",
            openml=44963,
            n_splits=5,
        ),
        _uci(
            name="wine_red",
            n=1599,
            d=11,
            target="quality",
            unit="score, 3 to 8",
            y_mean=5.6360,
            y_std=0.8073,
            citation="Cortez et al., UCI 186, doi 10.24432/C56S3T; Decision Support Systems 47"
            " (2009) 547-553",
            note="red wine only; 240 rows are duplicates",
            sha256="2d596dcffe763ee3454cb32c4f57b1c18419ba606cddcb9ec120d10cc7585f89",
            openml=44972,
        ),
        _uci(
            name="yacht",
            n=308,
            d=6,
            target="residuary_resistance",
            unit="per unit weight of displacement",
            y_mean=10.4954,
            y_std=15.1359,
            citation="Gerritsma, Onnink & Versluis (1981), UCI 243, doi 10.24432/C5XG7R",
            note="target strongly skewed",
            sha256="627c150520957b11867d095dc11ceecc7f817e44127896287eabf58bff53d19e",
            openml=42370,
        ),
        _uci(
            name="year",
            n=515345,
            d=90,
            target="year",
            unit="calendar year",
            citation="Bertin-Mahieux (2011), Year Prediction MSD, UCI 203, doi 10.24432/C50K61",
            note="not distributed: put arrays X and y, in UCI's row order, into uci/year.npz; one"
            " split, first 463715 rows for training, last 51630 for test, 100 hidden units",
            n_splits=1,
            n_train=463_715,
        ),
        _bundled_classes(
            name="iris",
            n=150,
            d=4,
            target="species",
            citation="Fisher, Annals of Eugenics 7 (1936) 179-188; UCI 53, doi 10.24432/C56C76",
            note="50 flowers a species; two of the species overlap",
            bundled="load_iris",
            features=("sepal_length_cm", "sepal_width_cm", "petal_length_cm", "petal_width_cm"),
            classes=("setosa", "versicolor", "virginica"),
        ),
        _bundled_classes(
            name="breast_cancer",
            n=569,
            d=30,
            target="diagnosis",
            citation="Wolberg, Mangasarian, Street & Street (1993), UCI 17, doi 10.24432/C5DW2B",
            note="mean, standard error and worst of ten measures of cell nuclei; 212 malignant",
            bundled="load_breast_cancer",
            classes=("malignant", "benign"),
        ),
        _bundled_classes(
            name="wine_cultivars",
            n=178,
            d=13,
            target="cultivar",
            citation="Aeberhard & Forina (1992), UCI 109, doi 10.24432/C5PC7J",
            note="chemical analysis of Italian wines; scikit-learn calls the set wine",
            bundled="load_wine",
            classes=("cultivar 1", "cultivar 2", "cultivar 3"),
        ),
        _bundled_classes(
            name="digits",
            n=1797,
            d=64,
            target="digit",
            citation="Alpaydin & Kaynak (1998), UCI 80, doi 10.24432/C50P49",
            note="8 x 8 pictures, ink 0 to 16, of digits of 13 writers",
            bundled="load_digits",
            classes=tuple(range(10)),
            image_shape=(8, 8),
        ),
        DataSet(
            name="mushroom",
            n=8124,
            d=22,
            target="class",
            licence=_CC_BY,
            citation="Schlimmer (1987), after the Audubon Society Field Guide, UCI 73,"
            " doi 10.24432/C5959T",
            note="class e is edible, p poisonous; every feature is a one-letter code, ? one of them"
            " in stalk-root; some columns tell the classes apart nearly alone",
            file="mushroom/agaricus-lepiota.csv",
            sha256="7204d38399e2c7c84d85e7a2019081724bb943613e82be5d3523156cfbcf9f64",
            n_splits=0,
            classes=("e", "p"),
        ),
        _pictures(
            name="mnist",
            target="digit",
            licence="CC BY-SA 3.0, as commonly stated",
            citation="LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86 (1998) 2278-2324",
            note="28 x 28 pictures, ink 0 to 255; the first 60000 rows are the published training"
            " set",
            sha256="39b9b1ffaa0ba4d8995a616551f0966941fe02a3fe79ba4a9db7373db16d53ad",
            openml=554,
            classes=tuple(range(10)),
        ),
        _pictures(
            name="fashion",
            target="garment",
            licence="MIT",
            citation="Xiao, Rasul & Vollgraf, arXiv:1708.07747 (2017)",
            note="Fashion-MNIST: 28 x 28 pictures of goods; the first 60000 rows are the published"
            " training set",
            sha256="1eb657606b268db73049144beb8aa219f7ae0453322d5033729298cc1119ae59",
            openml=40996,
            classes=(
                *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
                *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
            ),
        ),
    )
}


def names() -> list[str]:
    """Return the names that `load` knows."""
    return list(_TABLE)


def find(name: str) -> DataSet | None:
    """Return what is known about a data set; None where it is none."""
    return _TABLE.get(name)


def describe(name: str) -> DataSet:
    """Return what is known about a data set; TableError names those that exist."""
    if name not in _TABLE:
        raise TableError(f"no data set {quoted(name)}; there are {', '.join(_TABLE)}")
    return _TABLE[name]


def load(name: str) -> Loaded:
    """Read a data set from the first place that has it, and check it.

    Raises TableError, in one line, when no place has it or a copy is not what it should be.
    """
    data = describe(name)
    tried: list[str] = []
    for place in PLACES:
        loaded = place(data, tried)
        if loaded is not None:
            return loaded
    remedy = f"; {data.note}" if data.sha256 is None and data.file else ""
    raise TableError(
        f"data set {quoted(name)} was not found ({'; '.join(tried)}): set {FOLDER_VARIABLE} to a"
        f" folder that holds {data.file or 'it'}{remedy}"
    )
