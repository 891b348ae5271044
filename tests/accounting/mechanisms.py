"""Mechanisms that several tests of accountants use."""

import math

import rangebound as rb

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)


def free(noise, query=LINE):
    return rb.Mechanism(noise=noise, query=query, bounding=rb.UNBOUNDED)


def gaussian(scale):
    return free(rb.Gaussian(scale=scale))


def short(noise, width=10.0, sensitivity=1.0, **others):
    query = rb.Query(range=rb.Interval(0, width), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, **others)
