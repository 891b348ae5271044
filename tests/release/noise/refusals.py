"""What is refused, in words."""

import pytest

from rangebound.errors import CertificateInvalid


def refusal(publisher, *claim, **named):
    """Why a publisher or a selection does not have the privacy that is claimed."""
    with pytest.raises(CertificateInvalid) as caught:
        publisher.check(*claim, **named)
    return str(caught.value)
