"""A seed gives the same instance on every machine: digests written down once, compared always."""

from __future__ import annotations

import pytest

from instances import generate

LINEAR = "linearly-weighted-geometric"
DIGESTS = {
    ("a-max-trap", 0): "6df2cb806b300f5607eca380d74c82c0778e50b95509936c31a538f9fbf4c19e",
    ("arrival-model-1", 0): "c66cf4e4011902b3af478321e54d26250fee97c6bc7f1e7f14e6183dc826fa97",
    ("arrival-model-1", 2026): "399edc3a76ec0cd01504055ac13f5e11cd16282ba67ff61eb854a295f200ccd4",
    ("arrival-model-2", 0): "24bd9ebbfcd6413ad46f5a67abf1fdc3dfd8636a8c51ef12294e0beb41001afc",
    ("arrival-model-2", 2026): "f1c632061d315eee8775e0c76a9501f571aea01b8370d682155ee61aa68af410",
    ("binomial", 0): "3604dfd93c04fa4b1905623432ae8e32fd00f10f6c64a99ff93065cff2c034a7",
    ("binomial", 2026): "5e4870f96271c9b2d4a2db4c3b6a9fc4faaf4d228bab8415439534a8a04dca09",
    ("exponential", 0): "687aab576d0bc76581ca216141517cf0004d3dd58f984d9d0a28acd06088f944",
    ("exponential", 2026): "1a2d308b4828ec482762ce6e6c87218062dfa761028eb0754f041167162e292a",
    ("geometric", 0): "4991704d924c9bf0307adc928a5ffad5be244d5448c05dd69b53a0090268bcab",
    ("geometric", 2026): "d69da882d0e57140f674fb88bebb988bf26318e6bee9cb3f0fb14a5679d084ac",
    (LINEAR, 0): "5487f35635d6ad00e661638cf971f634a2e1b74322cfb55887f0ea879631855f",
    (LINEAR, 2026): "e63e8f868cdd2508a146ad02db3db322c65fa05e154231776647c1a4e6a78a90",
    ("lmsys-like", 0): "edbf87e3df463cae350388e2f80d4eb145560a35e6c37a7715e9b22a1dc30249",
    ("lmsys-like", 2026): "aac644a670fad8a52148f39e5292e552bd34c86484cb632be2e883383f1bde6a",
    ("mixed", 0): "c539ca6bbc476437b2b17e1306daa92327f3b00cf4d5972d837f7de328c2c46e",
    ("mixed", 2026): "38259f799b2005adfb3f670da666a5964b99fce6a1431133bce5dff4f9ecc88d",
    ("mixed-long-short", 0): "ced1bcef265092006da5d2bc4f190f01f7f2bc74b868125797bef3b45e7f0cb9",
    ("mixed-long-short", 2026): "230f462708f4ab15eb01bbb1a1602279ab6695f3f4f2144db9afc839f3c35fec",
    ("normal", 0): "014c2c4ff975c29524a6d7563f4ec1e3bb43d4b0a6d42e7ff2722707a18ebbab",
    ("normal", 2026): "870e8b3a82872a67bbe43c8a05f3bcf945048df6dc123679fb725a7ef0c3b688",
    ("two-point", 0): "48d818f2d6b5d99ba8b16a38b7577da3ece6eab42fd6563f4c5c50f30c895e63",
    ("two-point", 2026): "11ded6e7f292ebc71e391edf23186b968f06650c034b671a2e54766073adb7af",
    ("uniform", 0): "7f1cb8cc0aa6de71641b2c31a679e53ec497fb5a03c4196c7d81465690890561",
    ("uniform", 2026): "b629851bd7a707b5f3a39c6955a76165929b9e87cda7403363c21638facc5dc2",
}


@pytest.mark.parametrize(("name", "seed"), DIGESTS)
def test_a_seed_gives_the_digest_it_always_gave(name: str, seed: int) -> None:
    assert generate(name, seed=seed).digest == DIGESTS[name, seed]


def test_parameters_enter_the_same_way_everywhere() -> None:
    drawn = generate("mixed-long-short", seed=9, n=50, arrival_rate=0.5, token_scale=64)
    assert drawn.digest == "41c76c75c1cbb8c0a76bcb97972cc2d0cba59af5df36aa46e9b3c099e4bef8c2"
