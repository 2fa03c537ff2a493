// The losses and score functions, by the names that Python gives them.
#pragma once

#include "common/binding.h"
#include "predict/scores.h"
#include "train/losses.h"

namespace labeltree {

constexpr Choices<Loss, 3> loss_names{
    {{"squared_hinge", Loss::squared_hinge}, {"hinge", Loss::hinge}, {"logistic", Loss::logistic}}};

constexpr Choices<ScoreName, 3> score_names{
    {{"sigmoid", ScoreName::sigmoid}, {"hinge2", ScoreName::hinge2}, {"hinge3", ScoreName::hinge3}}};

}  // namespace labeltree
