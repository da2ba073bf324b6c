# SPDX-License-Identifier: Apache-2.0
"""Training steps of models that torchvision and transformers have: made from configurations, without weights to load.

Each entry of MODELS makes, given torch, what frameworks.py captures: (step, inputs, what is to live as long). A step is
forward, backward and optimizer; inputs["x"] is the one that can be freed behind the capture."""


def step_of(torch, model, optimizer, inputs, loss_of):
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step, inputs, (model, optimizer)


def adam(torch, model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)


def sgd(torch, model):
    return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)


# -- torchvision -------------------------------------------------------------------------------------


def vision(name, make_optimizer, **arguments):
    def make(torch):
        import torchvision
        model = getattr(torchvision.models, name)(weights=None, **arguments).cuda().train()
        inputs = {"x": torch.randn(8, 3, 128, 128, device="cuda"),
                  "y": torch.randint(0, 1000, (8,), device="cuda")}
        return step_of(torch, model, make_optimizer(torch, model), inputs, lambda model, inputs:
                       torch.nn.functional.cross_entropy(model(inputs["x"]), inputs["y"]))

    return make


# -- transformers ------------------------------------------------------------------------------------


def language(model_name, config_name, **arguments):
    """Tokens are input and labels, each in memory of its own."""
    def make(torch):
        import transformers
        config = getattr(transformers, config_name)(vocab_size=8192, **arguments)
        model = getattr(transformers, model_name)(config).cuda().train()
        tokens = torch.randint(0, 8192, (4, 128), device="cuda")
        inputs = {"x": tokens, "y": tokens.clone()}
        return step_of(torch, model, adam(torch, model), inputs,
                       lambda model, inputs: model(input_ids=inputs["x"], labels=inputs["y"]).loss)

    return make


def image_transformer(torch):
    import transformers
    config = transformers.ViTConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                    intermediate_size=1024, image_size=128, num_labels=10)
    model = transformers.ViTForImageClassification(config).cuda().train()
    inputs = {"x": torch.randn(8, 3, 128, 128, device="cuda"), "y": torch.randint(0, 10, (8,), device="cuda")}
    return step_of(torch, model, adam(torch, model), inputs,
                   lambda model, inputs: model(pixel_values=inputs["x"], labels=inputs["y"]).loss)


MODELS = {
    "resnet18": vision("resnet18", sgd),
    "mobilenet_v3_small": vision("mobilenet_v3_small", sgd),
    "efficientnet_b0": vision("efficientnet_b0", adam),
    "densenet121": vision("densenet121", sgd),
    "convnext_tiny": vision("convnext_tiny", adam),
    "vit_b_16": vision("vit_b_16", adam, image_size=128),
    "swin_t": vision("swin_t", adam),
    "gpt2": language("GPT2LMHeadModel", "GPT2Config", n_positions=128, n_embd=256, n_layer=4, n_head=4,
                     bos_token_id=0, eos_token_id=0),
    "bert": language("BertForMaskedLM", "BertConfig", hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                     intermediate_size=1024),
    "t5": language("T5ForConditionalGeneration", "T5Config", d_model=256, d_kv=64, d_ff=1024, num_layers=3,
                   num_heads=4, decoder_start_token_id=0),
    "llama": language("LlamaForCausalLM", "LlamaConfig", hidden_size=256, intermediate_size=1024,
                      num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                      max_position_embeddings=128),
    "vit": image_transformer,
}
