// Codes of the activations, shared with Python (activation.py) and the CUDA kernels.
#pragma once

enum Activation {
    IDENTITY = 0,
    RELU = 1,
    LEAKY_RELU = 2,
    ELU = 3,
    SIGMOID = 4,
    TANH = 5,
    SOFTPLUS = 6,
    SILU = 7,
    GELU = 8,
    SINUSOID = 9,
};
