"""The SQL that answers the questions: macros, views and analyses, and the classifier's rules.

Installed as ``tracekit.queries``. Every file is found by being there;
``tracekit.analysis.catalog`` reads them through ``importlib.resources``, so they work the same
from a wheel, a zip file or a source checkout.
"""
