"""The fields of the Differential Privacy Deployments Registry: names, types, and which words are allowed.

Written down from the registry's schema as of 2026 (github.com/opendp/deployments-registry-data,
schemas/deployments-schema.yaml), in the terms of JSON Schema, so that a validator of somebody else can check a record.
It is a transcription by hand, and narrower in places.
"""

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def one_of(*words):
    return {"type": "string", "enum": list(words)}


def fields(required=(), **properties):
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


def texts(*names):
    return dict.fromkeys(names, TEXT)


NEEDED = ("name", "description", "intended_use", "data_product_region")
BASIC = fields(
    (*NEEDED, "data_curators", "data_product_type", "publication_date"),
    **texts(*NEEDED),
    data_curators={
        "type": "array",
        "minItems": 1,
        "items": fields(
            ("data_curator_name", "data_curator_type"),
            data_curator_name=TEXT,
            data_curator_type=one_of("Government", "Industry", "Nonprofit"),
        ),
    },
    data_product_type=one_of(
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries"
    ),
    data_product_sector=one_of("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    publication_date={"type": "string", "format": "date"},
)
DP_VARIANT = fields(
    variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    **texts("data_domain", "unprotected_quantities"),
)
PRIVACY_LOSS = fields(
    **texts("privacy_unit", "privacy_unit_details"),
    number_of_privacy_units={"type": "integer"},
    privacy_parameters=fields(epsilon=NUMBER, delta={"type": ["number", "string"]}, rho=NUMBER),
    privacy_parameters_details={},
)
DEPLOYMENT_MODEL = fields(
    model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
    release_type=one_of("One release", "Many releases"),
    data_source_type=one_of("Static", "Dynamic"),
    access_type=one_of("Interactive", "Non-interactive"),
    **texts("model_name_details", "release_type_details", "data_source_type_details", "access_type_details"),
    trust_assumptions=TEXT,
    actors={},
)
IMPLEMENTATION = fields(
    **texts("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing", "justification"),
    utility={},
    additional_information={},
)
ADMINISTRATIVE = fields(
    ("status", "registry_authors", "tier"),
    evidence_sources={
        "type": "object",
        "patternProperties": {
            r"^\w+$": fields(
                evidence_source_type=one_of(
                    "Peer-reviewed publication",
                    "Formal publication by the deploying organization",
                    "Authorized organizational attestation",
                    "Other public source",
                ),
                misc=fields(title=TEXT, url=TEXT),
            )
        },
    },
    status=one_of("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    registry_authors={"type": "array", "items": TEXT, "minItems": 1},
    tier={"type": "integer", "enum": [1, 2, 3]},
)
SCHEMA = fields(
    ("url_slug", "deployment"),
    url_slug=TEXT,
    deployment=fields(
        ("basic", "administrative"),
        basic=BASIC,
        dp_variant=DP_VARIANT,
        privacy_loss=PRIVACY_LOSS,
        deployment_model=DEPLOYMENT_MODEL,
        implementation=IMPLEMENTATION,
        administrative=ADMINISTRATIVE,
    ),
)

WORDS = {
    "data_curator_type": "Government",
    "data_product_sector": "Healthcare",
    "publication_date": "2026-11-17",
    "number_of_privacy_units": 2000,
    "release_type": "One release",
    "data_source_type": "Static",
    "evidence_source_type": "Other public source",
}
"""What a custodian fills into the open fields that take a few words or a number only."""


def filled(found):
    """A record in which somebody has filled in what is open: a few words where only these are allowed, else a text."""
    if isinstance(found, dict):
        return {
            name: WORDS.get(name, "filled in") if isinstance(each, str) and "OPEN: " in each else filled(each)
            for name, each in found.items()
        }
    if isinstance(found, list):
        return [filled(each) for each in found]
    return "filled in" if isinstance(found, str) and "OPEN: " in found else found
