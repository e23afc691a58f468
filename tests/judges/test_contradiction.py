import pytest

from judges.contradiction import contradiction

OPPOSED = {
    "side": """
        drive on the left | drive on the right
        Cars drive on the left side of the road. | Traffic keeps to the right.
        Vehicles keep left. | Vehicles keep right.
        left-hand traffic | right-hand traffic
        The steering wheel is on the right. | The steering wheel is on the left.
        right-hand drive cars | left-hand-drive cars
        The sun is in the north. | The sun is in the south.
        Shadows point south, so the sun stands to the north. | The sun is to the south of the camera.
        a yellow strip on the left of the plate | a yellow strip on the right of the plate""",
    "colour": """
        red soil | white soil
        The soil is deep red. | The soil is black.
        Red soil covers the verge. | Dark grey earth covers the verge.
        white plates | yellow plates
        The car has white front plates. | Yellow front plates on the car.
        bollards with a red reflector | bollards with a black reflector
        red and white bollards | black and yellow bollards
        The signs are white on blue. | green and black signs
        a red and white chevron sign | a black and white chevron sign
        white centre lines | yellow centre lines
        A white line along each edge, a yellow one in the middle. | A yellow line along each edge.
        a wooden house with red shutters | a wooden house with green shutters full of holes
        White dashed line in the middle of the road. | Yellow dashed line in the middle of the road.
        The roof tiles are orange. | The roof tiles are blue.
        blue road signs | green road signs
        Roofs are covered in red tiles | Roofs are covered in grey tiles""",
    "material": """
        wooden poles | concrete poles
        Utility poles made of wood line the road. | Concrete utility poles line the road.
        tall wooden electricity poles | thick concrete power poles
        The poles are concrete. | The poles are wooden.
        metal bollards | plastic bollards
        a steel balcony without any flowers | a wooden balcony full of flowers
        brick houses | wooden houses
        paved road | gravel road
        The road is asphalt. | The street is unpaved.""",
    "number": """
        two yellow lines | one yellow line
        double yellow lines | a single yellow line
        A road with three lanes. | A road with four lanes.
        generation 3 camera | generation 4 camera
        poles with two insulators | poles with three insulators""",
    "negation": """
        There is not one bollard. | a bollard
        bollards | Bollards are completely absent.
        Overtaking is prohibited. | Overtaking is allowed.
        no bollards | bollards
        larch rather than spruce on the slopes | spruce instead of larch on the slopes
        Slopes without any spruce rise from the valley. | Dark spruce rise from the valley.
        a wide road with no edge lines | a wide road with white edge lines
        There are no bollards along the road. | Short black bollards with white reflectors stand along the road.
        The cars do not have front plates. | The cars have front plates.
        Cars without front licence plates. | White front licence plates.
        Bollards are not visible. | Bollards stand on both sides.
        The road isn't paved. | The road is paved.
        The plates are not yellow. | The plates are yellow.
        Road signs are not written in two alphabets. | Road signs are written in two alphabets.
        They do not drive on the left. | They drive on the left.
        No utility poles or guard rails. | Wooden utility poles line the road.
        The bollards lack a reflector. | The bollards have a red reflector.""",
}
AT_PEACE = """
    The plates are black on yellow. | yellow plates with black letters
    The absence of trees is complete. | There is not one tree on the lava.
    Woodland is entirely missing from the view. | not a single tree between the road and the hills
    a solid line on the bend for no overtaking | Overtaking is forbidden along the bend.
    not one but two stripes | two stripes
    Parking is forbidden here. | A sign prohibits parking.
    red roofs | white plates with a red soil
    red roofs | white walls
    white edge lines and no centre line | edges marked in white, without a line in the middle
    white lines along the edges | a yellow line in the middle
    There is no single road but a bundle of tracks. | several tracks instead of one road
    Drive on the left, with no lights. | Traffic keeps left.
    drive on the left | The steering wheel is on the right.
    Cars drive on the left. | Traffic drives on the left side of the road.
    white front plates | yellow rear plates
    yellow centre lines | white edge lines
    Yellow centre line and white edge lines. | white lines
    red soil | reddish-brown soil
    orange soil | red earth
    wooden poles | concrete walls
    wooden utility poles | poles made of timber
    no bollards | no bollards are visible
    no front plates | yellow plates
    no wooden poles | concrete poles
    The plates are not yellow. | white plates
    two yellow lines | two lines
    one of the poles is wooden | two wooden poles
    bollards with a red reflector | white bollards
    a black cap on a white bollard | white bollards with a black cap
    red and white bollards | white bollards with a red band
    There is no doubt that the soil is red. | The soil is red.
    Such bollards are not found elsewhere. | Short bollards with a black cap.
    not only red soil but palm trees | red soil and palm trees
    Cars are parked on the left. | Traffic drives on the right.
    a blue car | a white house
    green hills and blue sky | white clouds
    short black bollards | tall wooden poles
    The house has a red roof and white walls. | White walls under a red roof.
    dry yellow grass | green trees
    double yellow lines | yellow kerb
    A yellow sign with black letters | black letters on a yellow sign
    concrete poles with two crossbars | concrete poles with holes
    four-lane road | wooden poles with two insulators
    the survey car has no roof rack | a red roof
    left over snow on the road | drive on the right
    The sign on the right is blue. | Cars drive on the left.
    right-of-way sign | drive on the left
    a sign on the left and a sign on the right | a sign on the right
    brick walls | red walls
    palm trees | no snow
    no snow on the ground | palm trees
    a silver car | grey cars
    white stripe | yellow line
    blue strip on the left of the plate | drive on the right"""


def pairs(block):
    return [tuple(part.strip() for part in line.split("|")) for line in block.strip().splitlines()]


@pytest.mark.parametrize(
    ("aspect", "a", "b"), [(aspect, *pair) for aspect, block in OPPOSED.items() for pair in pairs(block)]
)
def test_opposed(aspect, a, b):
    assert contradiction(a, b) == contradiction(b, a) == aspect


@pytest.mark.parametrize(("a", "b"), pairs(AT_PEACE))
def test_at_peace(a, b):
    assert contradiction(a, b) is None
    assert contradiction(b, a) is None


def test_every_kind_has_enough_examples():
    assert sum(len(pairs(block)) for block in OPPOSED.values()) >= 40
    assert len(pairs(AT_PEACE)) >= 40


EVERY_TEXT = [text for block in [*OPPOSED.values(), AT_PEACE] for pair in pairs(block) for text in pair]


@pytest.mark.parametrize("text", EVERY_TEXT)
def test_nothing_contradicts_itself(text):
    assert contradiction(text, text) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Postes de madeira no lado direito da rua.", "Postes no lado direito da rua."),
        ("um poste no canto da rua", "canto da rua"),
        ("el poste no es de madera", "el poste es de madera"),
        ("Die Autos fahren in der Stadt left", "die Autos fahren right in der Stadt"),
    ],
)
def test_other_languages_are_left_alone(a, b):
    assert contradiction(a, b) is None
    assert contradiction(b, a) is None


@pytest.mark.parametrize(
    "text", ["", "   ", "...", "no", "not", "red", "two", "no no not without", "红色的土壤", "left"]
)
def test_fragments(text):
    for other in ("", "red soil", "no bollards or", "drive on the left", text):
        assert contradiction(text, other) in (None, "side")
