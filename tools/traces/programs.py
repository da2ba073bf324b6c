# SPDX-License-Identifier: Apache-2.0
"""The programs that record_programs.py records: their shapes change from step to step. All are PyTorch's and
torchvision's own layers with random weights and data; what is learnt or said does not matter.

A program is a function of (device, scale, notes, tiny), like a workload of workloads.py. Scale 1 is sized for a peak
of 2 to 25 GiB of requested bytes; tiny is small enough for a processor. It tells notes where steps begin and which
blocks other streams use. Numbers come from seeds, and threads take turns: each run makes the same requests.

    name               what changes
    serve_growing      batch, prompt and caches, each made anew for each token
    serve_shared       caches of common beginnings, shared between requests; the oldest go
    serve_evicted      many conversations, whose caches grow in steps, are evicted, and are computed again
    serve_beams        caches put in another order for each token, and batches that shrink
    adapters           low-rank adapters of many ranks, loaded, evicted, merged into weights
    threads_serve      four servers in threads, each with its stream
    gpt2               GPT-2 trained, batch and length anew
    varlen_accumulate  texts of changing length, gradients of four batches summed
    varlen_checkpoint  the same for longer texts, with activations computed again
    experts            mixture of experts with unequal loads
    reinforce          generation and training by turns
    speech             a conformer on sentences of changing length
    side_stream        inputs made on a second stream, batch and width anew
    threads_loader     inputs made by a second thread on its stream
    resnet50           ResNet-50 trained, size and number of images anew
    detection          Faster R-CNN on images of all shapes
    diffusion_serve    images by diffusion, any number and shape
    diffusion_train    a U-Net trained by buckets of shapes
    graphs             message passing on graphs of changing size
"""

import programs_images
import programs_serving
import programs_training

PROGRAMS = {**programs_serving.PROGRAMS, **programs_training.PROGRAMS, **programs_images.PROGRAMS}
