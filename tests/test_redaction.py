"""Secrets are masked in every common form, and nothing else is."""

import time

import pytest

from tracekit.redaction import (
    MASK,
    Redactor,
    is_secret_name,
    mask_json,
    mask_members,
    mask_text,
    mask_words,
    secrets_in_environment,
    secrets_in_text,
    secrets_in_words,
)


@pytest.mark.parametrize(
    "name",
    ["api-key", "api_key", "apiKey", "--api-key", "HF_TOKEN", "hf-token", "token", "password",
     "Authorization", "AWS_SECRET_ACCESS_KEY", "X-Api-Key", "client_secret", "OPENAI_API_KEY"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["tokenizer", "max_new_tokens", "eos_token", "TOKENIZERS_PARALLELISM", "keyboard", "monkey",
     "max-tokens", "num_key_value_heads", "ssl-keyfile", "PATH", "time_per_output_token"],
)  # fmt: skip
def test_names_of_other_things(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("vllm serve m --api-key sk-1 --port 8000", "vllm serve m --api-key {} --port 8000"),
        ("vllm serve m --api-key=sk-1", "vllm serve m --api-key={}"),
        ("vllm serve m --api-key 'sk 1' -x", "vllm serve m --api-key '{}' -x"),
        ('sh -c "HF_TOKEN=abc vllm"', 'sh -c "HF_TOKEN={} vllm"'),
        ('{"api_key": "a", "n": 1}', '{"api_key": "{}", "n": 1}'),
        (r"{\"api_key\":\"a\",\"n\":1}", r"{\"api_key\":\"{}\",\"n\":1}"),
        ("Authorization: Bearer abc", "Authorization: Bearer {}"),
        ("http://me:pw@host:1/x", "http://me:{}@host:1/x"),
        ("https://pat@host/x", "https://{}@host/x"),
        ("http://host/?api_key=a&n=1", "http://host/?api_key={}&n=1"),
        ("https://b/k?sv=2022-11-02&sig=a%2Fb%3D&se=9", "https://b/k?sv=2022-11-02&sig={}&se=9"),
        (
            "s3: https://b/k?X-Amz-Credential=AK%2F1&X-Amz-Expires=60&X-Amz-Signature=0f;",
            "s3: https://b/k?X-Amz-Credential={}&X-Amz-Expires=60&X-Amz-Signature={};",
        ),
        (
            "https://b/k?x-goog-signature=0f&x-amz-security-token=t",
            "https://b/k?x-goog-signature={}&x-amz-security-token={}",
        ),
        ("https://b/k?Signature=0f&Key-Pair-Id=K", "https://b/k?Signature={}&Key-Pair-Id={}"),
        ("https://b/k#access_token=a&sig=0f", "https://b/k#access_token={}&sig={}"),
        ("https://b/k?n=1;sig=0f x;policy", "https://b/k?n=1;sig={} x;policy"),
        ("<https://b/k?n=1&amp;sig=0f>", "<https://b/k?n=1&amp;sig={}"),
        (r'{"u": "https://b/k?n=1\u0026sig=0f"}', r'{"u": "https://b/k?n=1\u0026sig={}"}'),
        (
            "https://v/?u=https%3A%2F%2Fb%2Fk%3Fn%3D1%26X-Amz-Signature%3D0f%26e%3D2&m=1",
            "https://v/?u=https%3A%2F%2Fb%2Fk%3Fn%3D1%26X-Amz-Signature%3D{}%26e%3D2&m=1",
        ),
        ("https://v/?u=h%253Fsig%253D0f%252Fa", "https://v/?u=h%253Fsig%253D{}"),
        ("https://b/k?x-oss-signature=0f&q-ak=a", "https://b/k?x-oss-signature={}&q-ak={}"),
        (
            "https://b/k?OSSAccessKeyId=a&x-cos-security-token=t",
            "https://b/k?OSSAccessKeyId={}&x-cos-security-token={}",
        ),
        ("Authorization: Token abc", "Authorization: Token {}"),
        ("SignedHeaders=host, Signature=0123456789abcdef0123", "SignedHeaders=host, Signature={}"),
        ("X-Amz-Signature: 0f", "X-Amz-Signature: {}"),
        ("the signature: (Tensor x); st=1, policy=fsdp", None),
        ("curl -H 'X-Api-Key: abc' url", "curl -H 'X-Api-Key: {}' url"),
        ("api_key=['sk-1'], n=2", "api_key=['{}'], n=2"),
        ("--model m --max-new-tokens 5 --tokenizer t", None),
        ("python train.py --eos-token </s> lr=3 http://host:8/", None),
    ],
)
def test_masked_text(text, masked):
    assert mask_text(text) == (text if masked is None else masked.replace("{}", MASK))


def test_masked_words():
    words = ["tracekit", "collect", "--launch", "vllm --api-key sk-1", "--api-key", "x", "--n", "1"]
    masked = ["tracekit", "collect", "--launch", f"vllm --api-key {MASK}", "--api-key", MASK]
    assert mask_words(words) == [*masked, "--n", "1"]
    assert secrets_in_words(words) == {"sk-1", "x"}
    assert mask_words(masked) == masked


def test_masked_json():
    value = {"a": [{"api_key": "s", "n": [1, {"password": {"x": 1}}]}], "token": None}
    assert mask_json(value) == {
        "a": [{"api_key": MASK, "n": [1, {"password": MASK}]}],
        "token": None,
    }
    assert secrets_in_text('{"a": {"secret": ["one", {"x": "two"}], "url": "http://u:pw@h"}}') == {
        "one",
        "two",
        "pw",
    }


def test_secrets_in_the_environment_have_a_minimum_length():
    variables = {"API_KEY": "long enough", "DB_PASSWORD": "short", "SSL_KEY": "/etc/ssl/key.pem"}
    assert secrets_in_environment({**variables, "HOME": "/root/long"}) == {"long enough"}


def test_a_known_secret_is_masked_in_every_quoting():
    redactor = Redactor(['p/w "ü"', "p/word", "ab"])
    text = (
        'raw p/w "ü" url p%2Fw%20%22%C3%BC%22 json p/w \\"ü\\" ascii p/w \\"\\u00fc\\" '
        "part p/word ab"
    )
    cleaned = f"raw {MASK} url {MASK} json {MASK} ascii {MASK} part {MASK} ab"
    assert redactor.clean(text) == cleaned
    assert redactor.clean_bytes(text.encode()) == cleaned.encode()
    assert redactor.clean_json({"p/word": ["x p/word", 1]}) == {MASK: [f"x {MASK}", 1]}
    assert Redactor([]).clean("anything") == "anything"


def test_masking_takes_linear_time():
    """Quadratic growth would take minutes."""
    pieces = ["a", "a.", "key=", 'key="', "--key ", "a://", "a://b:", "key: Bearer ", "key\\\\\\"]
    begin = time.process_time()
    for piece in [*pieces, "%3Fa", "\\", "%2525", "%3Fsig%3D"]:
        mask_text(piece * (20_000 // len(piece)))
    assert time.process_time() - begin < 60


def test_members_are_masked_by_their_names_at_any_depth():
    deep = {"HF_TOKEN": "hf_abc"}
    for _ in range(5000):
        deep = {"in": [deep]}
    value = {
        "env": {"HF_TOKEN": "hf_abc", "HOME": "/root", "WANDB_API_KEY": ""},
        "options": [{"api_key": "sk-1", "max_tokens": "7", "key": "conv1", "token": 50256}],
        "deep": deep,
    }
    mask_members(value)
    assert value["env"] == {"HF_TOKEN": MASK, "HOME": "/root", "WANDB_API_KEY": ""}
    assert value["options"] == [
        {"api_key": MASK, "max_tokens": "7", "key": "conv1", "token": 50256}
    ]
    for _ in range(5000):
        (deep,) = deep["in"]
    assert deep == {"HF_TOKEN": MASK}
