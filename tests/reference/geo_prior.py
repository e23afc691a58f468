"""Presence-only loss, fusion and rank, one row and one class at a time, in float64. From the formulas."""

import math

import numpy as np


def presence_only(weights, places, seen, elsewhere):
    """Loss and its gradient by the weights (C, D); logit of class c at a place e (D,) is w_c . e, without a bias."""
    weights = np.asarray(weights, float)
    classes = len(weights)
    loss, gradient = 0.0, np.zeros_like(weights)
    for place, true in zip(places, seen, strict=True):
        for c in range(classes):
            s = sigmoid(weights[c] @ place)
            if c == true:
                loss += classes * -math.log(s) / (len(places) * classes)
                gradient[c] += classes * (s - 1) * place / (len(places) * classes)
            else:
                loss += -math.log(1 - s) / (len(places) * classes)
                gradient[c] += s * place / (len(places) * classes)
    for place in elsewhere:
        for c in range(classes):
            s = sigmoid(weights[c] @ place)
            loss += -math.log(1 - s) / (len(elsewhere) * classes)
            gradient[c] += s * place / (len(elsewhere) * classes)
    return loss, gradient


def fused(image, logits, located):
    """Probabilities of one row's classes: those of the image times sigmoid(logit), normalised; 0 where all are."""
    products = [p * (sigmoid(logit) if located else 1.0) for p, logit in zip(image, logits, strict=True)]
    total = sum(products)
    return [product / total if total > 0 else 0.0 for product in products]


def true_class(probabilities, classes, true):
    """(probability, how many classes are ahead) of the true class; (0, inf) where it is not listed or impossible."""
    listed = {c: p for c, p in zip(classes, probabilities, strict=True) if c >= 0}
    if listed.get(true, 0.0) == 0.0:
        return 0.0, math.inf
    order = sorted(listed, key=lambda c: (-listed[c], c))
    return listed[true], order.index(true)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))
