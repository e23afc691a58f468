"""How one (statement, context) pair becomes a number in [0, 1]."""

from judges.scorers.causal_lm import CausalLMScorer
from judges.scorers.contract import PairScores, Scorer, fill_matches
from judges.scorers.cross_encoder import CrossEncoderScorer
from judges.scorers.embedding import EmbeddingScorer

__all__ = ["CausalLMScorer", "CrossEncoderScorer", "EmbeddingScorer", "PairScores", "Scorer", "fill_matches"]
