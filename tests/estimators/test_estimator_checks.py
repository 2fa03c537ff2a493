"""scikit-learn's own checks of an estimator, and the reasons for the expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from labeltree import LabelTreeClassifier

SPARSE = "predictions of several labels are sparse; the check requires a NumPy array"
INEXACT = (
    "the solver stops within a tolerance: a row of weight 2 and the same row twice give nearly the same "
    "model (test_weighted_rows_give_the_model_of_repeated_rows), not the same numbers"
)
# Also in docs/scikit-learn.md. A check that passes unexpectedly is an error.
SPARSE_CHECKS = {
    "check_classifiers_multilabel_representation_invariance": SPARSE,
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_output_format_predict_proba": SPARSE,
    "check_classifiers_multilabel_output_format_decision_function": SPARSE,
}
INEXACT_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": INEXACT,
    "check_sample_weight_equivalence_on_sparse_data": INEXACT,
}
# Newton's method then goes on to the precision of the machine.
EXACT = {"loss": "logistic", "tolerance": 1e-24}


def expected_failures(estimator):
    inexact = INEXACT_CHECKS if estimator.tolerance > EXACT["tolerance"] else {}
    return (SPARSE_CHECKS if estimator.sparse_output else {}) | inexact


@parametrize_with_checks(
    [
        LabelTreeClassifier(),
        LabelTreeClassifier(**EXACT),
        LabelTreeClassifier(**EXACT, weights="int8"),
        LabelTreeClassifier(**EXACT, prune=0.001),
        LabelTreeClassifier(**EXACT, sparse_output=False),
    ],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
