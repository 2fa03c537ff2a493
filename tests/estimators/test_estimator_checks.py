"""scikit-learn's own checks of an estimator, and the reasons for the expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from labeltree import LabelTreeClassifier

SPARSE = "predictions of several labels are sparse; the check requires a NumPy array"
INEXACT = (
    "the solver stops within a tolerance: a row of weight 2 and the same row twice give nearly the same "
    "model (test_weight_two_is_nearly_the_row_twice), not the same numbers"
)
# Also in docs/scikit-learn.md. A check that passes unexpectedly is an error.
EXPECTED_FAILURES = {
    "check_classifiers_multilabel_representation_invariance": SPARSE,
    "check_classifiers_multilabel_output_format_predict": SPARSE,
    "check_classifiers_multilabel_output_format_predict_proba": SPARSE,
    "check_classifiers_multilabel_output_format_decision_function": SPARSE,
    "check_sample_weight_equivalence_on_dense_data": INEXACT,
    "check_sample_weight_equivalence_on_sparse_data": INEXACT,
}


@parametrize_with_checks(
    [LabelTreeClassifier(), LabelTreeClassifier(weights="int8"), LabelTreeClassifier(prune=0.001)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
