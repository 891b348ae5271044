"""Laws: noise families, boundings, the distribution of one output, its error and its intervals."""
